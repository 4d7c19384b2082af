import{r as e,t}from"./chunk-SHT3W25Y-Bi0p3mNR.js";import"./chunk-POPQ4Y6H-BEJOKfAu.js";import"./chunk-LNGE3PJU-DRjopGY8.js";import"./chunk-TLUHSLCS-Bfz4UchJ.js";import"./chunk-F27PBJKO-B1Q7R9Aj.js";import"./chunk-L3NEJ4N5-wZ8j4CLz.js";import"./chunk-OSK3NFVY-DSa70IEa.js";import"./chunk-GVQU2GXP-DS9-XnCe.js";import"./chunk-4HAMMTFA-COm480iB.js";import"./chunk-P2QGCYS3-BQsbcjG3.js";import"./chunk-GMAD6QVW-MWGwjMsy.js";import"./chunk-PWAF6VOD-DMumEc-6.js";import"./chunk-75Z2AOVW-CBAJR0tN.js";import"./chunk-DU6HZSFF-BqIzR41i.js";import"./d3-selection-CQOeqU2O.js";import{n}from"./chunk-Y2CYZVJY-DsF7k-Jl.js";var r=t({defaultLayout:`swimlane`,styles:n(t=>`${e(t)}
  .swimlane.cluster rect {
    stroke: ${t.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,`getStyles`)});export{r as diagram};