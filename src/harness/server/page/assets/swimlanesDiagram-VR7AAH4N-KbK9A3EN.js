import{r as e,t}from"./chunk-SHT3W25Y-9_WhuaMq.js";import"./chunk-POPQ4Y6H-DFcsBvmL.js";import"./chunk-LNGE3PJU-DRjopGY8.js";import"./chunk-TLUHSLCS-Buima1F1.js";import"./chunk-F27PBJKO-BezoZDkO.js";import"./chunk-L3NEJ4N5-DlPImddZ.js";import"./chunk-OSK3NFVY-DV1UVc5t.js";import"./chunk-GVQU2GXP-CahDuIcc.js";import"./chunk-4HAMMTFA-BjKEWqW5.js";import"./chunk-P2QGCYS3-iS4jkTf-.js";import"./chunk-GMAD6QVW-DKA-8l30.js";import"./chunk-PWAF6VOD-BVVfF4A5.js";import"./chunk-75Z2AOVW-CLF0Y65X.js";import"./chunk-DU6HZSFF-BD1EBObV.js";import"./d3-selection-CQOeqU2O.js";import{n}from"./chunk-Y2CYZVJY-DsF7k-Jl.js";var r=t({defaultLayout:`swimlane`,styles:n(t=>`${e(t)}
  .swimlane.cluster rect {
    stroke: ${t.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,`getStyles`)});export{r as diagram};