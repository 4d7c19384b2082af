import{r as e,t}from"./chunk-SHT3W25Y-WCuk7y-D.js";import"./chunk-POPQ4Y6H-aVh0S9DV.js";import"./chunk-LNGE3PJU-DRjopGY8.js";import"./chunk-TLUHSLCS-D3qelFDk.js";import"./chunk-F27PBJKO-Cs2Dbpa7.js";import"./chunk-L3NEJ4N5-BzGvjvRU.js";import"./chunk-OSK3NFVY-5lRhbjuB.js";import"./chunk-GVQU2GXP-DcI9tbVG.js";import"./chunk-4HAMMTFA-izsQtJcY.js";import"./chunk-P2QGCYS3-BoyRY1Dt.js";import"./chunk-GMAD6QVW-DELr9eKS.js";import"./chunk-PWAF6VOD-DcNIMS9i.js";import"./chunk-75Z2AOVW-BYsKn9-k.js";import"./chunk-DU6HZSFF-DK-eIh9D.js";import"./d3-selection-CQOeqU2O.js";import{n}from"./chunk-Y2CYZVJY-DsF7k-Jl.js";var r=t({defaultLayout:`swimlane`,styles:n(t=>`${e(t)}
  .swimlane.cluster rect {
    stroke: ${t.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,`getStyles`)});export{r as diagram};